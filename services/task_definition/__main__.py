from services.task_definition.app import build
from services.task_definition.environment import TaskDefinitionSettings
from shared.runtime.serve import main

if __name__ == "__main__":
    main("task_definition", build, TaskDefinitionSettings)
