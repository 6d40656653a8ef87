from services.watchdog.app import build
from shared.runtime.serve import main

if __name__ == "__main__":
    main("watchdog", build)
