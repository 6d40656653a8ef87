from services.console.app import service_of
from services.console.environment import ConsoleSettings
from shared.runtime.web_only import main_web_only

if __name__ == "__main__":
    main_web_only("console", ConsoleSettings, service_of)
