//! Teams, handles and collectives after losses, panics and misuse.

mod after_a_loss;
mod names;
mod near;
mod outlived;
mod reasons;
mod unwinding;
