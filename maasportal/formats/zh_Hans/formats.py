"""Chinese figures in technical text: 10,000, not 10000; and a space between figures and characters in dates."""

THOUSAND_SEPARATOR = ","
NUMBER_GROUPING = 3
DATE_FORMAT = "Y 年 n 月 j 日"
SHORT_DATE_FORMAT = "Y 年 n 月 j 日"
MONTH_DAY_FORMAT = "n 月 j 日"
