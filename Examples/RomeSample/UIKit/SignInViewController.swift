// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import UIKit

final class SignInViewController: FormViewController {
    private let sample: RomeSample

    init(_ sample: RomeSample) {
        self.sample = sample
        super.init(nibName: nil, bundle: nil)
    }

    @available(*, unavailable) required init?(coder: NSCoder) { nil }

    override func viewDidLoad() {
        super.viewDidLoad()
        title = "Rome sample"
        let sample = sample
        addNotice { sample.notice }
        addLabel(.headline).text = "With a link"
        addField("Join link", { sample.link }, { sample.link = $0 })
        // The sheet of the browser makes this screen disappear, so the app owns the sign-in.
        let join = addButton("Join") { sample.work.run("sign in") { await sample.join() } }
        addLabel(.headline).text = "With a browser"
        addField("Address of the relay", { sample.address }, { sample.address = $0 })
        let signIn = addButton("Sign in") { sample.work.run("sign in") { await sample.signInWithBrowser() } }
        observe { for button in [join, signIn] { button.isEnabled = !sample.isSigningIn } }
    }
}
#endif
