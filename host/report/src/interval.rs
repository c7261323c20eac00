//! How sure a pass rate is.
//!
//! The trials of one case are not independent: a hard case fails them all. An interval that
//! counts trials as if they were is too narrow, so cases are the clusters here.
//!
//! # Formula
//!
//! With `k` cases, of which case `i` has `mᵢ` scored trials and `sᵢ` passes, `N = Σmᵢ`,
//! `p = Σsᵢ / N`:
//!
//! 1. The cluster-robust variance of `p` (CR1): `v = k/(k−1) · Σ(sᵢ − mᵢp)² / N²`.
//! 2. The effective sample size `n = p(1−p) / v`, times `(z/t)²` for `v` is an estimate, with
//!    `z` the normal and `t` Student's quantile on `k−1` degrees of freedom.
//! 3. `n` is held between `N² / Σmᵢ²` (every trial of a case says the same: Kish's bound) and `N`
//!    (each says something new). The bounds also decide where there is nothing to estimate:
//!    at 0 %, at 100 % and with one case the lower one holds.
//! 4. Wilson's score interval for `p` out of `n`.
//!
//! With one trial a case both bounds are `N`, and this *is* Wilson's interval.
//!
//! # Sources
//!
//! - E. B. Wilson, *Probable inference, the law of succession, and statistical inference*, JASA
//!   22 (1927). L. Brown, T. Cai, A. DasGupta, *Interval estimation for a binomial proportion*,
//!   Statistical Science 16 (2001), on why not the textbook one.
//! - E. Korn, B. Graubard, *Confidence intervals for proportions with small expected number of
//!   positive counts estimated from survey data*, Survey Methodology 24 (1998): the effective
//!   sample size and its correction by t. N. Dean, M. Pagano, *Evaluating confidence interval
//!   methods for binomial proportions in clustered surveys*, JSSAM 3 (2015): with Wilson's.
//! - L. Kish, *Survey Sampling* (1965): the design effect.
//! - E. Miller, *Adding error bars to evals*, arXiv:2411.00640 (2024): cases as clusters.

/// The level of every interval.
pub const LEVEL: f64 = 0.95;

/// The normal quantile of [`LEVEL`], two-sided.
const Z: f64 = 1.959_963_984_540_054;

/// An interval for a proportion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Not below 0, not above the proportion.
    pub low: f64,
    /// Not above 1, not below the proportion.
    pub high: f64,
}

/// Passes in clusters. Its memory does not grow with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clusters {
    clusters: u64,
    trials: u64,
    passed: u64,
    // Whole numbers, so that no sum depends on its order and no difference on rounding.
    trials_squared: u128,
    passed_squared: u128,
    passed_by_trials: u128,
}

impl Clusters {
    /// Adds a case: so many of its trials were scored, so many of those passed. A case without a
    /// scored trial says nothing.
    pub fn push(&mut self, passed: u64, trials: u64) {
        if trials == 0 {
            return;
        }
        let passed = passed.min(trials);
        self.clusters += 1;
        self.trials += trials;
        self.passed += passed;
        let (passed, trials) = (u128::from(passed), u128::from(trials));
        self.trials_squared += trials * trials;
        self.passed_squared += passed * passed;
        self.passed_by_trials += passed * trials;
    }

    /// Cases with a scored trial.
    pub fn clusters(&self) -> u64 {
        self.clusters
    }

    /// Scored trials.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    /// Passes.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// The pass rate; none where nothing was scored.
    pub fn rate(&self) -> Option<f64> {
        (self.trials > 0).then(|| self.passed as f64 / self.trials as f64)
    }

    /// How many independent trials these are worth; none where nothing was scored.
    pub fn effective(&self) -> Option<f64> {
        if self.trials == 0 {
            return None;
        }
        let n = self.trials as f64;
        let least = n * n / self.trials_squared as f64;
        // NaN where there is nothing to estimate from; `max` then takes the other one.
        let estimate = self.estimate().unwrap_or(f64::NAN);
        Some(estimate.max(least).min(n))
    }

    /// Steps 1 and 2 of the module's formula, unbounded. None where there is one case only, where
    /// no trial differs, or where the numbers are too big to be exact.
    fn estimate(&self) -> Option<f64> {
        let failed = self.trials - self.passed;
        if self.clusters < 2 || self.passed == 0 || failed == 0 {
            return None;
        }
        let (n, s) = (i128::from(self.trials), i128::from(self.passed));
        let [nn, ns, ss] = [n.checked_mul(n)?, n.checked_mul(s)?, s.checked_mul(s)?];
        // Σ(sᵢN − mᵢS)²
        let spread = nn
            .checked_mul(self.passed_squared.try_into().ok()?)?
            .checked_sub(ns.checked_mul(2)?.checked_mul(self.passed_by_trials.try_into().ok()?)?)?
            .checked_add(ss.checked_mul(self.trials_squared.try_into().ok()?)?)?;
        let degrees = self.clusters - 1;
        let within = (self.passed as f64) * (failed as f64) * (nn as f64);
        let correction = degrees as f64 / self.clusters as f64 * (Z / t_quantile(degrees)).powi(2);
        Some(within / spread as f64 * correction)
    }

    /// The interval for the pass rate; none where nothing was scored.
    pub fn interval(&self) -> Option<Interval> {
        Some(wilson(self.rate()?, self.effective()?))
    }
}

/// Wilson's score interval for the proportion `p`, seen in `n` trials, at [`LEVEL`]. `p` is from
/// 0 to 1 and `n` is above 0; neither need be whole.
pub fn wilson(p: f64, n: f64) -> Interval {
    let zz = Z * Z / n;
    let middle = (p + zz / 2.0) / (1.0 + zz);
    let half = (p * (1.0 - p) / n + zz / (4.0 * n)).sqrt() * Z / (1.0 + zz);
    // In exact arithmetic both hold by themselves.
    Interval { low: (middle - half).clamp(0.0, p), high: (middle + half).clamp(p, 1.0) }
}

/// Student's quantile at [`LEVEL`], two-sided.
fn t_quantile(degrees: u64) -> f64 {
    match degrees {
        0 => f64::INFINITY,
        1 => 12.706_204_736_174_7,
        2 => 4.302_652_729_749_46,
        3 => 3.182_446_305_283_71,
        4 => 2.776_445_105_197_79,
        // Abramowitz and Stegun 26.7.5; from 5 on it is right to four digits.
        _ => {
            let n = degrees as f64;
            let power = |exponent| Z.powi(exponent);
            Z + (power(3) + Z) / (4.0 * n)
                + (5.0 * power(5) + 16.0 * power(3) + 3.0 * Z) / (96.0 * n.powi(2))
                + (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * Z) / (384.0 * n.powi(3))
                + (79.0 * power(9) + 776.0 * power(7) + 1482.0 * power(5) - 1920.0 * power(3) - 945.0 * Z)
                    / (92_160.0 * n.powi(4))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(cases: &[(u64, u64)]) -> Clusters {
        let mut clusters = Clusters::default();
        for (passed, trials) in cases {
            clusters.push(*passed, *trials);
        }
        clusters
    }

    fn rounded(interval: Option<Interval>) -> (f64, f64) {
        let interval = interval.expect("has one");
        let round = |x: f64| (x * 1e4).round() / 1e4;
        (round(interval.low), round(interval.high))
    }

    /// `passed` of `n` cases of one trial each.
    fn single(passed: u64, n: u64) -> Clusters {
        of(&(0..n).map(|at| (u64::from(at < passed), 1)).collect::<Vec<_>>())
    }

    #[test]
    fn one_trial_a_case_is_wilsons_interval() {
        assert_eq!(rounded(single(5, 10).interval()), (0.2366, 0.7634));
        assert_eq!(rounded(single(0, 10).interval()), (0.0, 0.2775));
        assert_eq!(rounded(single(10, 10).interval()), (0.7225, 1.0));
        assert_eq!(rounded(single(1, 1).interval()), (0.2065, 1.0));
        assert_eq!(rounded(single(0, 1).interval()), (0.0, 0.7935));
        // R. Newcombe, Statistics in Medicine 17 (1998), table I.
        assert_eq!(rounded(single(81, 263).interval()), (0.2553, 0.3662));
        assert_eq!(rounded(single(15, 148).interval()), (0.0624, 0.1605));
    }

    #[test]
    fn nothing_scored_has_no_rate() {
        for empty in [of(&[]), of(&[(0, 0), (0, 0)])] {
            assert_eq!((empty.rate(), empty.interval()), (None, None));
        }
    }

    #[test]
    fn trials_that_say_the_same_count_once() {
        let repeated = of(&[(10, 10), (0, 10), (10, 10), (0, 10), (10, 10), (0, 10)]);
        assert_eq!(repeated.effective(), Some(6.0));
        assert_eq!(repeated.interval(), single(3, 6).interval());
        // At 100 % nothing tells whether they say the same; they are held to.
        assert_eq!(of(&[(10, 10); 6]).interval(), single(6, 6).interval());
        // Nor does one case.
        assert_eq!(of(&[(5, 10)]).effective(), Some(1.0));
    }

    #[test]
    fn trials_that_differ_within_their_cases_count_more() {
        assert_eq!(of(&[(5, 10); 6]).effective(), Some(60.0));
        let between = of(&[(7, 10), (2, 10), (9, 10), (4, 10), (5, 10), (3, 10)]);
        let effective = between.effective().expect("has one");
        // By hand: p = 0.5, Σ(s − 5)² = 34, v = 6/5 · 34/3600, n = 0.25/v, times (1.96/2.5706)².
        assert!((effective - 12.823).abs() < 0.01, "{effective}");
    }

    #[test]
    fn students_quantile() {
        let known = [(1, 12.7062), (4, 2.7764), (5, 2.5706), (9, 2.2622), (29, 2.0452), (99, 1.9842)];
        for (degrees, quantile) in known {
            let found = t_quantile(degrees);
            assert!((found - quantile).abs() < 5e-4, "{degrees}: {found}");
        }
        assert!((t_quantile(u64::MAX) - Z).abs() < 1e-12);
    }

    #[test]
    fn big_runs_do_not_overflow() {
        let mut clusters = Clusters::default();
        for at in 0..1_000_000 {
            clusters.push(at % 10_000, 10_000);
        }
        let interval = clusters.interval().expect("has one");
        assert!(interval.high - interval.low < 0.002);
        let huge = of(&[(u64::MAX / 4, u64::MAX / 2), (7, u64::MAX / 4)]);
        assert!(huge.interval().is_some());
    }

    fn cases() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0u64..=12).prop_flat_map(|trials| (0..=trials, Just(trials))), 0..40)
    }

    proptest! {
        #[test]
        fn it_holds_the_rate_and_stays_inside(cases in cases()) {
            let clusters = of(&cases);
            let Some(rate) = clusters.rate() else {
                prop_assert!(clusters.interval().is_none());
                return Ok(());
            };
            let Interval { low, high } = clusters.interval().expect("has one");
            prop_assert!(0.0 <= low && low <= rate && rate <= high && high <= 1.0);
            prop_assert!(low < high);
        }

        #[test]
        fn it_lies_between_counting_trials_and_counting_cases(cases in cases()) {
            let clusters = of(&cases);
            let (Some(rate), Some(Interval { low, high })) = (clusters.rate(), clusters.interval()) else {
                return Ok(());
            };
            let naive = wilson(rate, clusters.trials() as f64);
            prop_assert!(low <= naive.low + 1e-12 && naive.high <= high + 1e-12);
            let squares: u64 = cases.iter().map(|(_, trials)| trials * trials).sum();
            let worst = wilson(rate, (clusters.trials() as f64).powi(2) / squares as f64);
            prop_assert!(worst.low <= low + 1e-12 && high <= worst.high + 1e-12);
        }

        #[test]
        fn failures_mirror_passes(cases in cases()) {
            let mirrored: Vec<_> = cases.iter().map(|(passed, trials)| (trials - passed, *trials)).collect();
            let (Some(a), Some(b)) = (of(&cases).interval(), of(&mirrored).interval()) else {
                return Ok(());
            };
            prop_assert!((a.low + b.high - 1.0).abs() < 1e-9 && (a.high + b.low - 1.0).abs() < 1e-9);
        }

        #[test]
        fn the_order_of_cases_is_no_matter(mut cases in cases()) {
            let before = of(&cases);
            cases.reverse();
            prop_assert_eq!(before, of(&cases));
        }
    }
}
