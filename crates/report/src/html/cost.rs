//! What tokens cost, from the price of a GPU and its throughput.

#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    per_hour: f64,
    currency: String,
}

impl Price {
    /// Parses `2.5/h`, `€2.5/h` or `2.5 EUR/h`: the price of one GPU for an hour. `None` for anything
    /// else; a price without a unit of time could be that of a month.
    pub fn parse(text: &str) -> Option<Self> {
        let amount =
            text.trim().strip_suffix("/h").or_else(|| text.trim().strip_suffix("/hour"))?;
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let from = amount.find(is_number)?;
        let to =
            amount[from..].find(|letter| !is_number(letter)).map_or(amount.len(), |at| from + at);
        let (before, after) = (amount[..from].trim(), amount[to..].trim());
        let currency = if before.is_empty() { after } else { before };
        let is_currency = |text: &str| {
            text.chars().count() <= 4
                && !text.contains(|c: char| "-+/.".contains(c) || c.is_ascii_digit())
        };
        let per_hour: f64 = amount[from..to].parse().ok()?;
        let is_sound = per_hour.is_finite() && per_hour > 0.0 && is_currency(currency);
        let is_single = before.is_empty() || after.is_empty();
        (is_sound && is_single).then(|| Self {
            per_hour,
            currency: if currency.is_empty() { "$".to_owned() } else { currency.to_owned() },
        })
    }

    /// Such as `$`.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// Such as `$2.5/h`.
    pub fn text(&self) -> String {
        format!("{}{}/h", self.currency, self.per_hour)
    }

    /// The cost of a million tokens at this many per second and GPU. `None` without any.
    pub fn per_million(&self, tokens_per_s_per_gpu: f64) -> Option<f64> {
        (tokens_per_s_per_gpu > 0.0).then(|| self.per_hour / (tokens_per_s_per_gpu * 3_600.0 / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_has_a_unit_of_time_and_may_have_a_currency() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(Price::parse(text).map(|price| price.text()).as_deref(), expected, "{text}");
        };
        check("2.5/h", Some("$2.5/h"));
        check("€2.5/h", Some("€2.5/h"));
        check("2.5 EUR/h", Some("EUR2.5/h"));
        check("1.41/hour", Some("$1.41/h"));
        for wrong in ["2.5", "2.5/month", "/h", "-2/h", "0/h", "$2€/h", "1.2.3/h", "1e999/h"] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_gpu_that_makes_a_thousand_tokens_a_second_makes_3_6_million_an_hour() {
        let price = Price::parse("3.6/h").unwrap();
        assert_eq!(price.per_million(1_000.0), Some(1.0));
        assert_eq!(price.per_million(0.0), None);
    }
}
