// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging

extension Logger {
    /// For service groups. A failing service reports its error itself, and their other messages print whole services.
    package var forServiceGroups: Logger { raised(to: .critical) }

    /// For HTTP servers: their messages about each start and connection are for their own developers.
    var forHTTPServers: Logger { raised(to: .warning) }

    /// The level `trace` shows all messages of libraries.
    private func raised(to level: Level) -> Logger {
        var logger = self
        if logLevel > .trace { logger.logLevel = max(logLevel, level) }
        return logger
    }
}
