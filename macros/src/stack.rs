//! All attributes of one function, the outermost first.

use proc_macro2::TokenStream;
use syn::{Attribute, Error, Ident, ItemFn, Meta, Result};

use crate::arguments::{Arguments, Shared};

/// The arguments of the attribute that is expanded, and of those below it, which are removed from the function.
pub(crate) struct Stack {
    pub(crate) limits: Vec<Arguments>,
    pub(crate) shared: Shared,
}

// === impl Stack ===

impl Stack {
    pub(crate) fn collect(outermost: TokenStream, function: &mut ItemFn) -> Result<Self> {
        let mut limits = vec![syn::parse2::<Arguments>(outermost)?];
        let (ours, others) = std::mem::take(&mut function.attrs).into_iter().partition(is_ours);
        function.attrs = others;
        for attribute in ours as Vec<Attribute> {
            let arguments = match &attribute.meta {
                Meta::List(list) => list.parse_args::<Arguments>()?,
                _ => attribute.parse_args::<Arguments>()?,
            };
            limits.push(arguments);
        }
        let mut shared = Shared::default();
        for limit in &mut limits {
            let Shared { wait, client, on_outage } = std::mem::take(&mut limit.shared);
            merge(&mut shared.wait, wait)?;
            merge(&mut shared.client, client)?;
            merge(&mut shared.on_outage, on_outage)?;
        }
        Ok(Self { limits, shared })
    }
}

/// Whether an attribute is `limited` or `topup::limited`.
fn is_ours(attribute: &Attribute) -> bool {
    let names: Vec<_> = attribute.path().segments.iter().map(|segment| segment.ident.to_string()).collect();
    names == ["limited"] || names == ["topup", "limited"]
}

fn merge<T>(place: &mut Option<(Ident, T)>, given: Option<(Ident, T)>) -> Result<()> {
    match given {
        Some((name, _)) if place.is_some() => {
            let message = format!("`{name}` speaks for all limits of this function: give it once");
            Err(Error::new(name.span(), message))
        }
        Some(given) => {
            *place = Some(given);
            Ok(())
        }
        None => Ok(()),
    }
}
