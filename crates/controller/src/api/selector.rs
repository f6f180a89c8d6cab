//! Label selectors: `tenant=shop,tier!=web,beta,!old`.

use std::collections::BTreeMap;

/// What labels must be like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    Is(String, String),
    IsNot(String, String),
    Has(String),
    HasNot(String),
}

// === impl Selector ===

impl Selector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let term = |text: &str| {
            let text = text.trim();
            let term = if let Some((key, value)) = text.split_once("!=") {
                Term::IsNot(key.trim().to_owned(), value.trim().to_owned())
            } else if let Some((key, value)) = text.split_once('=') {
                let value = value.strip_prefix('=').unwrap_or(value);
                Term::Is(key.trim().to_owned(), value.trim().to_owned())
            } else if let Some(key) = text.strip_prefix('!') {
                Term::HasNot(key.trim().to_owned())
            } else {
                Term::Has(text.to_owned())
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            let (Term::Is(key, value) | Term::IsNot(key, value)) = &term else {
                let (Term::Has(key) | Term::HasNot(key)) = &term else { return Ok(term) };
                let right = !key.is_empty() && key.chars().all(plain);
                return right.then_some(term.clone()).ok_or_else(|| text.to_owned());
            };
            let right = !key.is_empty() && key.chars().chain(value.chars()).all(plain);
            right.then_some(term.clone()).ok_or_else(|| text.to_owned())
        };
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let terms: Result<Vec<Term>, String> = text.split(',').map(term).collect();
        terms.map(Self).map_err(|term| {
            format!("{term:?} selects nothing: write key=value, key!=value, key or !key")
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn takes(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|term| match term {
            Term::Is(key, value) => labels.get(key) == Some(value),
            Term::IsNot(key, value) => labels.get(key) != Some(value),
            Term::Has(key) => labels.contains_key(key),
            Term::HasNot(key) => !labels.contains_key(key),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_selected() {
        let labels = [("tenant", "shop"), ("tier", "web")];
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        for (selector, takes) in [
            ("", true),
            ("tenant=shop", true),
            ("tenant==shop,tier", true),
            ("tenant=other", false),
            ("tier!=web", false),
            ("gone!=web, !gone", true),
            ("!tier", false),
        ] {
            assert_eq!(Selector::parse(selector).unwrap().takes(&labels), takes, "{selector}");
        }
        for wrong in [",", "=x", "a=b c", "!", "a in (b)"] {
            assert!(Selector::parse(wrong).is_err(), "{wrong}");
        }
    }
}
