//! Published figures, their page and their documents.

mod documents;
mod model;
mod page;
