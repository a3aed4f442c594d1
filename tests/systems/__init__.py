"""The five articles that this app unites, each as a test that tells the article's own story."""
