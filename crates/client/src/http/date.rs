//! The date of HTTP headers: `Sun, 06 Nov 1994 08:49:37 GMT`.

use tokometer_base::WallNanos;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Reads a date in the one form that servers may send today. The day of the week is not checked.
pub(super) fn parse(text: &str) -> Option<WallNanos> {
    let (_weekday, rest) = text.split_once(", ")?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let [day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let (day, year) = (number(day, 1..=31)?, number(year, 1970..=9999)?);
    let clock: Vec<&str> = time.split(':').collect();
    let [hour, minute, second] = clock[..] else { return None };
    // A leap second counts as the first second of the next minute.
    let (hour, minute, second) =
        (number(hour, 0..=23)?, number(minute, 0..=59)?, number(second, 0..=60)?);
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    seconds.checked_mul(1_000_000_000).map(WallNanos)
}

fn number(text: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && range.contains(number))
}

/// Days from the first of January 1970 to a date of the Gregorian calendar. Years are counted from
/// March, so that a leap day is the last of its year.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    days - 719_468
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
