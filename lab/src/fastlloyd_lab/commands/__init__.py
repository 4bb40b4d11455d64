"""Commands `fastlloyd experiment` and `fastlloyd datasets`, one file each."""
