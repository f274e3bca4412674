"""The phases as the frontend calls them: where their replicas are, which one is asked, what they answered."""
