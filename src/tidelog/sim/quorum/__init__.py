"""The quorum tier: voters and observers alone, messages as values, thousands of seeds a minute.

The metadata quorum decides everything else, so it gets more seeds than whole nodes can. The replica
is the production `Quorum` over the production `Log`; only the wire between them is left out.
"""
