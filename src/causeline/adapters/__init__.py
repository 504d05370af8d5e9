"""Every third-party library sits behind one of these, translated to our protocols and our errors."""
