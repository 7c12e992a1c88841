//! Recordings as people see them: the file for Perfetto read back by a parser that is not ours, and
//! the page opened in a browser.

mod file;
mod page;
mod recording;
