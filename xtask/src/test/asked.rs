//! What the caller of scripts/test asks for.

/// How much to run. Each has what the one before has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tier {
    Short,
    Gate,
    All,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) tier: Tier,
    /// The one step to run.
    pub(super) only: Option<String>,
    /// What has to be in the names of tests, clients and steps; empty for all.
    pub(super) filter: String,
    /// The part of the gate to run, where it isn't that of the commit.
    pub(super) part: Option<usize>,
}

impl Asked {
    pub(super) fn read(arguments: &[String]) -> Result<Self, String> {
        let mut asked = Asked { tier: Tier::Short, only: None, filter: String::new(), part: None };
        let mut rest = arguments.iter().map(String::as_str).peekable();
        match rest.peek() {
            Some(&"all") => asked.tier = Tier::All,
            Some(&"gate") => asked.tier = Tier::Gate,
            Some(&"--step") => asked.tier = Tier::All,
            _ => {}
        }
        if rest.peek() == Some(&"fresh") {
            asked.tier = Tier::All;
            asked.only = rest.next().map(str::to_owned);
        }
        let first = if asked.tier == Tier::Short || asked.only.is_some() { None } else { rest.next() };
        if first == Some("--step") {
            asked.only = Some(rest.next().ok_or("--step wants the name of a step")?.to_owned());
        }
        if asked.tier == Tier::Gate && rest.peek() == Some(&"--part") {
            rest.next();
            let part = rest.next().and_then(|number| number.parse().ok()).ok_or("--part wants a number")?;
            asked.part = Some(part);
        }
        if let Some(filter) = rest.next() {
            if filter.starts_with('-') {
                return Err(format!("{filter} is no option: scripts/test -h names them"));
            }
            filter.clone_into(&mut asked.filter);
        }
        match rest.next() {
            Some(_) => Err("one filter at most".to_owned()),
            None => Ok(asked),
        }
    }

    /// With the module as it is released?
    pub(super) fn released(&self) -> bool {
        self.tier > Tier::Short
    }

    /// Everything that the name of a step or of a part of it has?
    pub(super) fn is_whole(&self) -> bool {
        self.filter.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Asked, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Asked::read(&words)
    }

    #[test]
    fn each_form_is_read() {
        let asked = |tier, only: Option<&str>, filter: &str, part| {
            Ok(Asked { tier, only: only.map(str::to_owned), filter: filter.to_owned(), part })
        };
        assert_eq!(read(""), asked(Tier::Short, None, "", None));
        assert_eq!(read("lapse"), asked(Tier::Short, None, "lapse", None));
        assert_eq!(read("all"), asked(Tier::All, None, "", None));
        assert_eq!(read("all lapse"), asked(Tier::All, None, "lapse", None));
        assert_eq!(read("gate"), asked(Tier::Gate, None, "", None));
        assert_eq!(read("gate --part 3"), asked(Tier::Gate, None, "", Some(3)));
        assert_eq!(read("fresh trixie"), asked(Tier::All, Some("fresh"), "trixie", None));
        assert_eq!(read("--step valkey-9 grace::"), asked(Tier::All, Some("valkey-9"), "grace::", None));
    }

    #[test]
    fn wrong_words_are_refused() {
        for words in ["--step", "--part 3", "--long", "gate --part", "gate --part x", "a b", "all a b"] {
            assert!(read(words).is_err(), "{words}");
        }
    }
}
