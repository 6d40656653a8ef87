from services.share_correction.app import build
from shared.runtime.serve import main

if __name__ == "__main__":
    main("share_correction", build)
