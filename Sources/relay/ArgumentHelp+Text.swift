// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts

extension ArgumentHelp {
    /// A help in the person's language.
    static func text(_ english: String) -> ArgumentHelp { ArgumentHelp(localized(english)) }
}
