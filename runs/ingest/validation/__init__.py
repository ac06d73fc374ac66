"""What a record may say."""
