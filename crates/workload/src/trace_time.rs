//! Times as traces write them: numbers of seconds, or dates.

use tokometer_base::Nanos;
use tokometer_base::time::days_since_1970;

/// A time of a trace. The fraction stands apart: seconds since 1970 leave a double no room for the last digits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TraceTime {
    seconds: f64,
    fraction: f64,
}

/// Seconds of 1990 and later are dates, which count from the earliest one; smaller numbers are times of the
/// trace itself.
const FIRST_DATE: f64 = 631_152_000.0;

impl TraceTime {
    /// A number of seconds, or a date with a time of day and perhaps an offset.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse::<f64>() {
            let is_time = number.is_finite() && number >= 0.0;
            return is_time.then_some(Self { seconds: number.trunc(), fraction: number.fract() });
        }
        let (date, rest) = text.split_once([' ', 'T'])?;
        let (clock, offset) = match rest.rfind(['+', '-', 'Z']) {
            Some(at) => (&rest[..at], offset_seconds(&rest[at..])?),
            None => (rest, 0.0),
        };
        let [year, month, day] = parts(date, '-')?.map(|part| number(part, 9_999));
        let [hours, minutes, seconds] = parts(clock, ':')?;
        let (hours, minutes) = (number(hours, 23)?, number(minutes, 59)?);
        let seconds = seconds.parse().ok().filter(|it: &f64| (0.0..61.0).contains(it))?;
        let (month, day) = (month?, day?);
        let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
        let days = days_since_1970(i32::try_from(year?).ok()?, month, day);
        let minutes = days as f64 * 1_440.0 + f64::from(hours * 60 + minutes);
        is_date.then_some(Self {
            seconds: minutes * 60.0 + seconds.trunc() - offset,
            fraction: seconds.fract(),
        })
    }

    pub(crate) fn earlier(self, other: Self) -> Self {
        let is_later = (other.seconds, other.fraction) < (self.seconds, self.fraction);
        if is_later { other } else { self }
    }

    /// Seconds of the trace at this time.
    pub(crate) fn since(self, first: Option<Self>) -> f64 {
        match first.filter(|first| first.seconds >= FIRST_DATE) {
            Some(first) => (self.seconds - first.seconds) + (self.fraction - first.fraction),
            None => self.seconds + self.fraction,
        }
    }

    /// The time in nanoseconds since 1970. `None` before that and where nanoseconds have no room for it.
    pub(crate) fn since_1970(self) -> Option<Nanos> {
        let is_known = (0.0..1.8e10).contains(&self.seconds);
        let seconds = tokometer_base::units::nearest_count(self.seconds);
        let whole = Nanos(seconds.checked_mul(1_000_000_000)?);
        is_known.then(|| whole.saturating_add(Nanos::from_secs_f64(self.fraction)))
    }
}

fn parts(text: &str, separator: char) -> Option<[&str; 3]> {
    text.split(separator).collect::<Vec<_>>().try_into().ok()
}

fn number(text: &str, most: u32) -> Option<u32> {
    text.parse().ok().filter(|number| *number <= most)
}

/// `Z`, `+02:00` or `-0500` in seconds.
fn offset_seconds(text: &str) -> Option<f64> {
    if text == "Z" {
        return Some(0.0);
    }
    let digits = text[1..].replace(':', "");
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { 0 } else { number(minutes, 59)? };
    let size = f64::from(number(hours, 23)? * 3_600 + minutes * 60);
    Some(if text.starts_with('-') { -size } else { size })
}
