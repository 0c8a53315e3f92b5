//! The measuring model, which holds when one event carries one counted token.

use crate::figures::Figures;
use crate::interval::Interval;
use crate::rule::{Finding, Level, Rule};
use tokometer_compat::model::{Field, Metric, Stat};

pub(crate) fn findings(figures: &Figures<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    found.extend(events_per_token(figures));
    found.extend(weighted_tpot(figures));
    found.extend(tpot_against_itl(figures));
    found.extend(end_to_end_sum(figures));
    found.extend(retokenized(figures));
    found.extend(gaps_of_one(figures));
    found
}

/// Two counts of the same thing may differ by this share before it is worth a word.
const NEAR: f64 = 0.05;
/// And by this share before they contradict each other.
pub(crate) const FAR: f64 = 0.25;

const MORE_EVENTS: &str = "more events than counted tokens: the count is too low, or events without a token \
                           are timed; TPOT and token throughput follow the count";
const LONG_END: &str = "TPOT and ITL are both below (E2E − TTFT) / (tokens − 1): E2E holds time in which nothing \
                        streams, such as after the last token, or is of other requests";
const WITH_FIRST: &str =
    "TPOT × all tokens is the mean E2E: TPOT probably includes the time to the first token";
const APART: &str = "TPOT and ITL have other definitions or are of other requests; the block does not show \
                     which line differs";
const UNEQUAL: &str = "short answers streamed at another pace than long ones, as in a burst: TPOT counts \
                       every answer once, ITL every token";
const MERGED: &str = "an event holds several tokens: ITL is the time between events, not tokens";

/// How a ratio of events to counted tokens is judged. Fewer events than tokens is a way of streaming;
/// more is a wrong count.
fn judge(figures: &Figures<'_>, rule: Rule, ratio: Interval, what: String) -> Option<Finding> {
    if ratio.low > 1.0 + FAR {
        Some(if is_long_end(figures) {
            Finding::new(Level::Misleading, rule, what, LONG_END)
        } else {
            Finding::inconsistent(rule, what, MORE_EVENTS)
        })
    } else if ratio.high < 1.0 - FAR {
        Some(Finding::new(Level::Misleading, rule, what, MERGED))
    } else if ratio.low > 1.0 + NEAR || ratio.high < 1.0 - NEAR {
        let is_late = ratio.low > 1.0 && is_long_end(figures);
        let meaning =
            if is_late { LONG_END } else { "a few events carry no counted token, or several" };
        Some(Finding::new(Level::Remark, rule, what, meaning))
    } else {
        None
    }
}

fn stream_seconds(figures: &Figures<'_>) -> Option<Interval> {
    let per_request = figures.mean(Metric::E2el)? - figures.mean(Metric::Ttft)?;
    Some(per_request * figures.requests()?)
}

/// An end before the first token is a finding of its own: nothing streamed in a time below zero.
fn is_streamed(seconds: &Interval) -> bool {
    seconds.mid() >= 0.0
}

fn events_per_token(figures: &Figures<'_>) -> Option<Finding> {
    let gaps = stream_seconds(figures).filter(is_streamed)? / figures.mean(Metric::Itl)?;
    let events = gaps + Interval::exact(figures.requests()?);
    let tokens = figures.positive(Field::OutputTokens)?;
    let ratio = events / tokens;
    let real = events / figures.duration()?;
    let what = format!(
        "about {:.0} events were streamed for {:.0} counted tokens ({:.2} per token); at one token \
         per event the output throughput is {:.0} tok/s",
        events.mid(),
        tokens.mid(),
        ratio.mid(),
        real.mid()
    );
    judge(figures, Rule::EVENTS_PER_TOKEN, ratio, what)
}

/// Streaming time per counted token after the first, over all answers.
fn time_per_token(figures: &Figures<'_>) -> Option<Interval> {
    let later_tokens = figures.positive(Field::OutputTokens)?.mid() - figures.requests()?;
    (later_tokens > 0.0).then_some(stream_seconds(figures)? / Interval::exact(later_tokens))
}

fn weighted_tpot(figures: &Figures<'_>) -> Option<Finding> {
    let tpot = time_per_token(figures).filter(is_streamed)?;
    let itl = figures.mean(Metric::Itl)?;
    let what = format!(
        "streaming time per counted token is {:.2} ms, mean ITL {:.2} ms",
        tpot.mid() * 1e3,
        itl.mid() * 1e3
    );
    judge(figures, Rule::TOKEN_WEIGHTED_TPOT, tpot / itl, what)
}

fn tpot_against_itl(figures: &Figures<'_>) -> Option<Finding> {
    let (tpot, itl) = (figures.mean(Metric::Tpot)?, figures.mean(Metric::Itl)?);
    let later_tokens = figures.answer_tokens()? - 1.0;
    if later_tokens <= 0.0 {
        return None;
    }
    let ratio = tpot / itl;
    let highest = 1.03 + 2.5 / later_tokens;
    let what = format!(
        "mean TPOT {:.2} ms against mean ITL {:.2} ms: {:.2} times",
        tpot.mid() * 1e3,
        itl.mid() * 1e3,
        ratio.mid()
    );
    if ratio.low > highest.max(1.0 + FAR) {
        let (level, meaning) = high_tpot(figures);
        Some(Finding::new(level, Rule::TPOT_AGAINST_ITL, what, meaning))
    } else if ratio.high < 1.0 - FAR {
        Some(Finding::new(Level::Misleading, Rule::TPOT_AGAINST_ITL, what, MERGED))
    } else if ratio.low > highest || ratio.high < 0.97 {
        let meaning = "answers have very different lengths, or a few events merged";
        Some(Finding::new(Level::Remark, Rule::TPOT_AGAINST_ITL, what, meaning))
    } else {
        None
    }
}

/// Why TPOT is far above ITL.
fn high_tpot(figures: &Figures<'_>) -> (Level, &'static str) {
    if includes_first_token(figures) {
        (Level::Misleading, WITH_FIRST)
    } else if is_from_lengths(figures) {
        (Level::Misleading, UNEQUAL)
    } else if is_long_end(figures) {
        (Level::Misleading, LONG_END)
    } else if is_count_low(figures) {
        (Level::Inconsistent, MORE_EVENTS)
    } else {
        (Level::Inconsistent, APART)
    }
}

/// Whether TPOT is the whole time of a request over its tokens.
fn includes_first_token(figures: &Figures<'_>) -> bool {
    let found = || {
        let tokens = figures.answer_tokens()?;
        let streamed =
            || Some(figures.mean(Metric::Ttft)? + figures.mean(Metric::Itl)? * (tokens - 1.0));
        let printed = figures.mean(Metric::E2el).map(|latency| latency.widened(0.02));
        let latency = printed.or_else(|| streamed().map(|latency| latency.widened(NEAR)))?;
        Some((figures.mean(Metric::Tpot)? * tokens).overlaps(latency))
    };
    found().unwrap_or(false)
}

/// Whether requests end later than their tokens say.
fn is_long_end(figures: &Figures<'_>) -> bool {
    let below = |metric| Some((figures.mean(metric)? / time_per_token(figures)?).high < 1.0 - NEAR);
    below(Metric::Tpot) == Some(true) && below(Metric::Itl) == Some(true)
}

/// Whether TPOT follows a count that is too low: it agrees with the streaming time per counted token, or the
/// text has more tokens.
fn is_count_low(figures: &Figures<'_>) -> bool {
    let near = Interval { low: 1.0 - FAR, high: 1.0 + FAR };
    let agrees = || Some((figures.mean(Metric::Tpot)? / time_per_token(figures)?).overlaps(near));
    let in_text = || {
        let text = figures.field(Field::RetokenizedTokens)?;
        Some((text / figures.positive(Field::OutputTokens)?).low > 1.0 + FAR)
    };
    agrees() == Some(true) || in_text() == Some(true)
}

/// Means of whole requests differ by this factor at most where only the lengths of answers explain it.
const FARTHEST: f64 = 2.0;

/// Whether answers of different lengths may explain that the mean TPOT, which weighs all answers alike,
/// is not what the other lines give. Where the block has the means that weigh tokens, these decide;
/// otherwise the median shows whether a few short answers raise the mean.
fn is_from_lengths(figures: &Figures<'_>) -> bool {
    if figures.has_equal_lengths() || figures.requests().is_some_and(|requests| requests < 1.5) {
        return false;
    }
    if let Some((tpot, itl)) = time_per_token(figures).zip(figures.mean(Metric::Itl)) {
        return (tpot / itl).overlaps(Interval { low: 1.0 - FAR, high: 1.0 + FAR });
    }
    let usual = figures.seconds(Metric::Tpot, Stat::Median).or_else(|| figures.mean(Metric::Tpot));
    let per_token = figures.mean(Metric::Itl).or_else(|| time_per_token(figures));
    usual.zip(per_token).is_some_and(|(usual, per_token)| {
        (usual / per_token).overlaps(Interval { low: 1.0 / FARTHEST, high: FARTHEST })
    })
}

/// The mean of products is not the product of means: only a gross difference counts.
fn end_to_end_sum(figures: &Figures<'_>) -> Option<Finding> {
    let later_tokens = (figures.answer_tokens()? - 1.0).max(0.0);
    let sum =
        figures.mean(Metric::Ttft)? + figures.seconds(Metric::Tpot, Stat::Mean)? * later_tokens;
    let ratio = sum / figures.mean(Metric::E2el)?;
    let is_far = ratio.low > 1.0 + FAR || ratio.high < 1.0 - FAR;
    is_far.then(|| {
        let what = format!(
            "TTFT + TPOT × {later_tokens:.1} = {:.0} ms is {:.2} times the mean E2E",
            sum.mid() * 1e3,
            ratio.mid()
        );
        if includes_first_token(figures) {
            return Finding::new(Level::Misleading, Rule::OTHER_DEFINITION, what, WITH_FIRST);
        }
        if is_from_lengths(figures) {
            return Finding::new(Level::Misleading, Rule::END_TO_END_SUM, what, UNEQUAL);
        }
        let meaning = "TPOT has another definition, or long answers stream at another speed than \
                       short ones";
        Finding::inconsistent(Rule::END_TO_END_SUM, what, meaning)
    })
}

fn retokenized(figures: &Figures<'_>) -> Option<Finding> {
    let counted = figures.positive(Field::OutputTokens)?;
    let from_text = figures.field(Field::RetokenizedTokens)?;
    // The end token and its like are counted and not in the text.
    let unseen = 2.0 * figures.requests().unwrap_or(0.0);
    if (from_text.mid() - counted.mid()).abs() <= unseen {
        return None;
    }
    let ratio = (from_text / counted).mid();
    let distance = (ratio - 1.0).abs();
    let level = match distance {
        _ if distance > FAR => Level::Inconsistent,
        _ if distance > 2.0 * NEAR => Level::Misleading,
        _ => return None,
    };
    let what = format!(
        "{:.0} tokens in the text against {:.0} reported: {ratio:.2} times",
        from_text.mid(),
        counted.mid()
    );
    let meaning = "the reported count is the requested length, or the text was repeated or \
                   re-encoded in transit";
    Some(Finding::new(level, Rule::RETOKENIZED, what, meaning))
}

/// With a single request the number of its gaps can be worked out.
fn gaps_of_one(figures: &Figures<'_>) -> Vec<Finding> {
    let Some((gaps, later_tokens)) = gap_count(figures) else { return Vec::new() };
    let mut found = Vec::new();
    if !gaps.holds_whole_number() {
        let what =
            format!("TPOT × {later_tokens} / ITL = {:.2} gaps, not a whole number", gaps.mid());
        let meaning = "the latency runs past the last event, so TPOT is a little too high";
        found.push(Finding::new(Level::Remark, Rule::WHOLE_GAPS, what, meaning));
    }
    if (gaps.mid().round() - later_tokens).abs() > 0.5 {
        let what =
            format!("{:.0} gaps for {later_tokens} tokens after the first", gaps.mid().round());
        let meaning = "a step without a counted token, such as the end mark, is timed: TPOT is too \
                       high by its share";
        found.push(Finding::new(Level::Remark, Rule::GAPS_PER_TOKEN, what, meaning));
    }
    found
}

/// Gaps and later tokens of a single request, if the digits distinguish them.
fn gap_count(figures: &Figures<'_>) -> Option<(Interval, f64)> {
    let is_one = figures.requests().is_some_and(|requests| requests < 1.5);
    let later_tokens = figures.answer_tokens().filter(|_| is_one)? - 1.0;
    let gaps = figures.mean(Metric::Tpot)? * later_tokens / figures.mean(Metric::Itl)?;
    // The client's own work between its two clock readings is worth a few hundredths of a gap.
    let gaps = Interval { low: gaps.low - 0.05, high: gaps.high + 0.05 };
    (gaps.high - gaps.low < 0.5).then_some((gaps, later_tokens))
}
