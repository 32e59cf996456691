"""WebSocket subscriptions of the embedded chain, with the interface of Agave."""
