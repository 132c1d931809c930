"""Chinese figures in technical text: 10,000, not 10000."""

THOUSAND_SEPARATOR = ","
NUMBER_GROUPING = 3
