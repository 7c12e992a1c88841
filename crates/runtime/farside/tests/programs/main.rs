//! Programs, their pages, and what the compiler says of mistakes.

mod compile;
mod many_windows;
mod pages;
