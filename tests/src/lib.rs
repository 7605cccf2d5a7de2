//! topup-tests
