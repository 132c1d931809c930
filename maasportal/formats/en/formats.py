"""English dates as short as rows of tables need them: 5 Dec, 5 Dec 2026."""

DATE_FORMAT = "j M Y"
SHORT_DATE_FORMAT = "j M Y"
MONTH_DAY_FORMAT = "j M"
