"""The order of accesses, whatever their times: by streams, events and synchronisations of the host."""
