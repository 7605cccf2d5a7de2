//! topup-demo
