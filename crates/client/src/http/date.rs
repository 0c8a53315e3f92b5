//! The date of HTTP headers: `Sun, 06 Nov 1994 08:49:37 GMT`.

use tokometer_base::WallNanos;
use tokometer_base::time::days_since_1970;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Reads a date in the one form that servers may send today. The day of the week is not checked.
pub(super) fn parse(text: &str) -> Option<WallNanos> {
    let (_weekday, rest) = text.split_once(", ")?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let [day, month, year, time, "GMT"] = words[..] else { return None };
    let month = u32::try_from(MONTHS.iter().position(|name| *name == month)?).ok()? + 1;
    let (day, year) = (number(day, 1..=31)?, number(year, 1970..=9999)?);
    let days = days_since_1970(i32::try_from(year).ok()?, month, day);
    let clock: Vec<&str> = time.split(':').collect();
    let [hour, minute, second] = clock[..] else { return None };
    // A leap second counts as the first second of the next minute.
    let (hour, minute, second) =
        (number(hour, 0..=23)?, number(minute, 0..=59)?, number(second, 0..=60)?);
    let of_day = u64::from(hour * 3_600 + minute * 60 + second);
    let seconds = u64::try_from(days).ok()? * 86_400 + of_day;
    seconds.checked_mul(1_000_000_000).map(WallNanos)
}

fn number(text: &str, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && range.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http_are_seconds_since_1970() {
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(parse(text).map(|at| at.0 / 1_000_000_000), seconds, "{text}");
        };
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199));
        check("Fri, 01 Mar 2024 00:00:00 GMT", Some(1_709_251_200));
        check("Mon, 16 Nov 2026 00:30:25 GMT", Some(1_794_789_025));
        check("Fri, 31 Dec 9999 23:59:59 GMT", None);
        check("Mon, 16 Foo 2026 00:30:25 GMT", None);
        check("Mon, 16 Nov 2026 00:30:25 CET", None);
        check("Mon, 16 Nov 2026 +0:30:25 GMT", None);
        check("tomorrow", None);
        check("", None);
    }
}
