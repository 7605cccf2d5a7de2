//! TLS, rights of users, and secrets.

mod secrets;
mod tls;
