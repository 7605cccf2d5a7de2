//! Words of enums in config, records and status.

/// A word that names no variant of a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not known here: write one of {known}")]
pub struct UnknownWord {
    /// The word as given.
    pub given: String,
    /// The known words.
    pub known: String,
}

/// Gives an enum its words: `words!(Answer: Yes = "yes", No = "no")`.
macro_rules! words {
    ($type:ident: $($variant:ident = $word:literal),+) => {
        impl $type {
            /// Every value.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word in config, records and status.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::limit::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                let known = Self::ALL.into_iter().find(|value| value.as_str() == word);
                known.ok_or_else(|| $crate::limit::UnknownWord::new(word, Self::ALL.map(Self::as_str)))
            }
        }
    };
}

pub(super) use words;

// === impl UnknownWord ===

impl UnknownWord {
    pub(super) fn new<const N: usize>(given: &str, known: [&str; N]) -> Self {
        Self { given: given.to_owned(), known: known.map(|word| format!("{word:?}")).join(", ") }
    }
}
