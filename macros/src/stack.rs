//! All the attributes of one function, outermost first.

use proc_macro2::TokenStream;
use syn::{Attribute, Error, Ident, ItemFn, Meta, Result};

use crate::arguments::{Arguments, Shared};

/// The outermost attribute, which is being expanded, and those below it, taken off the function.
pub(crate) struct Stack {
    pub(crate) levels: Vec<Arguments>,
    pub(crate) shared: Shared,
}

// === impl Stack ===

impl Stack {
    pub(crate) fn collect(outermost: TokenStream, function: &mut ItemFn) -> Result<Self> {
        let mut levels = vec![syn::parse2::<Arguments>(outermost)?];
        let (ours, others) = std::mem::take(&mut function.attrs).into_iter().partition(is_ours);
        function.attrs = others;
        for attribute in ours as Vec<Attribute> {
            let arguments = match &attribute.meta {
                Meta::List(list) => list.parse_args::<Arguments>()?,
                _ => attribute.parse_args::<Arguments>()?,
            };
            levels.push(arguments);
        }
        let mut shared = Shared::default();
        for level in &mut levels {
            let Shared { wait, client, on_error } = std::mem::take(&mut level.shared);
            merge(&mut shared.wait, wait)?;
            merge(&mut shared.client, client)?;
            merge(&mut shared.on_error, on_error)?;
        }
        Ok(Self { levels, shared })
    }
}

/// `limited` or `topup::limited`.
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
