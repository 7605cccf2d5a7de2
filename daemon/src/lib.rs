//! topupd
