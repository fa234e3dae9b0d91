"""What is complete before what, whatever the times: by streams, events and synchronisations of the host."""
