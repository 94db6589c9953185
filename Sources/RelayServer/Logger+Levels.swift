// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging

extension Logger {
    /// For service groups: a failing service already reports its error, so the group need not log it.
    package var forServiceGroups: Logger {
        var logger = self
        if logLevel > .debug { logger.logLevel = .critical }
        return logger
    }

    /// Hides the libraries' start and stop messages at the level `info`.
    var withoutStartMessages: Logger {
        var logger = self
        if logLevel == .info { logger.logLevel = .notice }
        return logger
    }
}
