"""The review page: a local web page on which a person corrects a run. The edit log is the only thing it writes."""
