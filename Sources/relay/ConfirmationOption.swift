// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts

/// Whether a command asks whose account this device joins.
struct ConfirmationOption: ParsableArguments {
    @Flag(help: .text("Join the account without a question.")) var yes = false
}
