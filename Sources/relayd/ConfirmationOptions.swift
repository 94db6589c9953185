// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayServer

/// A question before a change that cannot be undone.
struct ConfirmationOptions: ParsableArguments {
    @Flag(help: .text("Do not ask. A script needs this.")) var yes = false

    /// Continues only if the operator types `yes`.
    func ask(_ what: String) throws {
        if yes { return }
        guard isatty(0) == 1 else {
            throw ConfigurationError("this cannot be undone, and no terminal is there to ask: add --yes")
        }
        StandardStream.note("\(what)\nThis cannot be undone. Type yes to go on:")
        guard readLine(strippingNewline: true) == "yes" else { throw ConfigurationError("nothing was changed") }
    }
}
