"""What it takes to ask a server over the network: settings, words on the wire, pace and account. Nothing here sends."""
