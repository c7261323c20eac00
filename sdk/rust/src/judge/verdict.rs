//! A judge's answer on one trial: the contract's `grading` records.

/// Where a verdict's reason stands in the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// An entry's name. The host refuses a verdict that cites what it was not given.
    pub entry: String,
    /// Words that stand in that entry.
    pub quote: String,
}

/// A number that was measured on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// In `[a-z0-9_.-]`, at most 64 bytes.
    pub name: String,
    /// Finite.
    pub value: f64,
    /// As `ms` or `bytes`; empty for a bare number.
    pub unit: String,
}

/// What the judge itself used. Absent is unknown, and is never read as zero.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// The model that was asked.
    pub model: Option<String>,
    /// Tokens that it read.
    pub input_tokens: Option<u64>,
    /// Tokens that it wrote.
    pub output_tokens: Option<u64>,
    /// What that cost, in US dollars.
    pub cost_usd: Option<f64>,
}

/// What a judge found.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// As it should be.
    Pass,
    /// Not as it should be.
    Fail,
    /// 0.0 to 1.0. The eval says from where on it passes.
    Score(f64),
    /// The judge can't say, and why.
    Abstain(String),
}

/// A judge's answer on one trial. Made by [`Verdict::pass`] and its siblings.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// What was found.
    pub finding: Finding,
    /// Why, for people: at most 4 KiB are kept.
    pub reason: String,
    /// Where the reason stands.
    pub citations: Vec<Citation>,
    /// Numbers that were measured on the way.
    pub measures: Vec<Measure>,
    /// What the judge itself used, where it knows.
    pub usage: Option<Usage>,
}

impl Verdict {
    /// A verdict without citations, measures or usage.
    pub fn new(finding: Finding, reason: impl Into<String>) -> Self {
        Self { finding, reason: reason.into(), citations: Vec::new(), measures: Vec::new(), usage: None }
    }

    /// The trial is as it should be.
    pub fn pass(reason: impl Into<String>) -> Self {
        Self::new(Finding::Pass, reason)
    }

    /// The trial is not as it should be.
    pub fn fail(reason: impl Into<String>) -> Self {
        Self::new(Finding::Fail, reason)
    }

    /// The trial is as good as this, from 0.0 to 1.0.
    pub fn score(score: f64, reason: impl Into<String>) -> Self {
        Self::new(Finding::Score(score), reason)
    }

    /// The judge can't say, and why. The trial counts as neither passed nor failed.
    pub fn abstain(why: impl Into<String>) -> Self {
        let why = why.into();
        Self::new(Finding::Abstain(why.clone()), why)
    }

    /// Adds a place in the evidence: an entry's name, and words that stand in it.
    pub fn cite(mut self, entry: impl Into<String>, quote: impl Into<String>) -> Self {
        self.citations.push(Citation { entry: entry.into(), quote: quote.into() });
        self
    }

    /// Adds a measured number; `unit` is empty for a bare one.
    pub fn measure(mut self, name: impl Into<String>, value: f64, unit: impl Into<String>) -> Self {
        self.measures.push(Measure { name: name.into(), value, unit: unit.into() });
        self
    }

    /// Says what the judge itself used.
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}
