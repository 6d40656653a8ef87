from services.job_dispatch.app import build
from services.job_dispatch.environment import DispatchSettings
from shared.runtime.serve import main

if __name__ == "__main__":
    main("job_dispatch", build, DispatchSettings)
