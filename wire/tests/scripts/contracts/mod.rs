//! What the headers of the scripts promise.

mod publishing;
