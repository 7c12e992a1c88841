//! The styles of text on the screen.

use ratatui::style::{Color, Modifier, Style};

use super::state::State;

pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// The style of a state, or none without colours.
pub(super) fn coloured(state: &State, colour: Color) -> Style {
    if state.has_colour { Style::new().fg(colour) } else { Style::new() }
}
