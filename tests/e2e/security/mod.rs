//! TLS, rights of users, and secrets.

mod acl;
mod secrets;
mod tls;
