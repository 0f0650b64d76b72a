// gateway
