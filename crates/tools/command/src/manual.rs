//! Manual pages and completions, from the definitions that command lines are parsed with.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;
use serde::{Deserialize, Serialize};

/// What completions need to know of a command line that another program parses.
#[derive(Serialize, Deserialize)]
pub(crate) struct Described {
    name: String,
    about: String,
    options: Vec<DescribedOption>,
    commands: Vec<Described>,
}

#[derive(Serialize, Deserialize)]
struct DescribedOption {
    long: Option<String>,
    short: Option<char>,
    takes_value: bool,
    values: Vec<String>,
    help: String,
}

impl Described {
    /// Describes a command line without what it hides.
    pub(crate) fn of(command: &Command) -> Described {
        let described = |option: &Arg| DescribedOption {
            long: option.get_long().map(str::to_owned),
            short: option.get_short(),
            takes_value: option.get_action().takes_values(),
            values: option.get_possible_values().iter().map(|it| it.get_name().into()).collect(),
            help: option.get_help().map(ToString::to_string).unwrap_or_default(),
        };
        let is_shown = |option: &&Arg| !option.is_hide_set() && !option.is_positional();
        let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
        Described {
            name: command.get_name().to_owned(),
            about: command.get_about().map(ToString::to_string).unwrap_or_default(),
            options: command.get_arguments().filter(is_shown).map(described).collect(),
            commands: commands.map(Described::of).collect(),
        }
    }

    /// Makes a definition of the command line again, under the name that a user types.
    fn define(self, name: String) -> Command {
        let option = |(at, it): (usize, DescribedOption)| {
            let action = if it.takes_value { ArgAction::Set } else { ArgAction::SetTrue };
            let mut option = Arg::new(format!("{at}")).short(it.short).action(action).help(it.help);
            if let Some(long) = it.long {
                option = option.long(long);
            }
            if !it.values.is_empty() {
                option = option.value_parser(it.values);
            }
            option
        };
        let commands = self.commands.into_iter().map(|command| {
            let name = command.name.clone();
            command.define(name)
        });
        Command::new(name)
            .about(self.about)
            .args(self.options.into_iter().enumerate().map(option))
            .subcommands(commands)
    }
}

/// Makes a definition from what a program has said when it was asked to describe itself.
pub(crate) fn defined(described: &[u8], name: &str) -> Result<Command> {
    Ok(serde_json::from_slice::<Described>(described)?.define(name.to_owned()))
}

/// Prints what completes the words of a command line in a shell.
pub fn complete(mut definition: Command, name: &str, shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut definition, name, &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// Prints the manual page of a command.
pub fn pages(definition: Command) -> Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(definition).render(&mut page)?;
    Ok(std::io::stdout().write_all(&page)?)
}

/// Writes the manual pages of a command and its subcommands into a directory, which is made if it
/// does not exist.
pub fn write_pages(definition: Command, directory: &Path) -> Result<()> {
    let failed = || format!("cannot write manual pages into {}", directory.display());
    std::fs::create_dir_all(directory).with_context(failed)?;
    clap_mangen::generate_to(definition, directory).with_context(failed)
}
