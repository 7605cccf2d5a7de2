//! Laws in virtual time, and planted faults that break them.

mod as_told;
mod asked;
mod bursts;
mod charges;
mod definitions;
mod found;
mod headroom;
mod holds;
mod key_plans;
mod leases;
mod penalties;
mod permits;
mod planted;
mod refunds;
mod schedules;
mod seeds;
mod several;
mod shares;
mod take_all;
mod windows;
