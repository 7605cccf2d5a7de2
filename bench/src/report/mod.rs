//! The pages of the docs.

mod bars;
mod page;
mod sections;

pub(crate) use bars::bars;
pub(crate) use page::{Surroundings, installed_redis, put, written};
