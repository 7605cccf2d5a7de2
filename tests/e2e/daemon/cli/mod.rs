//! The command line: what it answers, and how it ends.

mod exits;
mod generated;
mod json;
mod limits;
mod pipes;
mod plans;
mod reload;
mod servers;
mod top;
mod wait;

/// A limit of either kind, which do not fill while a test looks.
const LIMITS: &str = "[limit.api]\ncapacity = 3\nrate = \"1/h\"\n\
                      [limit.user]\nkeyed = true\ncapacity = 3\nrate = \"1/h\"\n\
                      [limit.lazy]\ncapacity = 3\nrate = \"1/h\"\nalgorithm = \"lazy-token-bucket\"\n";
