//! topup
