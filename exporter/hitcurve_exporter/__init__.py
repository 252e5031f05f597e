"""The service that scrapes engines and exposes hit rates and curve states."""
