"""Tables of whole networks beside other engines, from the results of the benchmark `engines`."""
